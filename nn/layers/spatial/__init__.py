"""Layers over signals, images and volumes: convolution, pooling, padding, upsampling."""
