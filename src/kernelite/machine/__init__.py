"""What a fitted model is: an expansion, its head, what rows go through before, a variance."""
