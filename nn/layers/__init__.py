"""The layers: every public module class of ``nn`` but ``Module`` itself, by family."""
