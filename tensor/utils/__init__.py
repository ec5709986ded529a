"""What PyTorch has under ``torch.utils``."""
