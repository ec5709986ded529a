"""Operations on each element: arithmetic, comparisons, powers, trigonometry, activations."""
