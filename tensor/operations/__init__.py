"""Operations: the kinds they are of and how they are planned; the families are in the folders."""
