"""What detectors of objects are made of: regions of images pooled to one size, overlapping boxes, deformable convolutions.

They are the operators that torchvision has compiled for PyTorch, and are called as those are
(:mod:`tensor.library.torchvision_operators`).

=========================  =========================================================================================
``pooled_regions``         RoIAlign, RoIPool and their position-sensitive forms, with derivatives
``pooling_on_host``        the same on the CPU: products with weights along each dimension
``suppression``            non-maximum suppression
``deformable_convolution``  convolutions that read where offsets say
=========================  =========================================================================================
"""
