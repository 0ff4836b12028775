"""Forms that replace an expansion, and what is proven about their error."""
