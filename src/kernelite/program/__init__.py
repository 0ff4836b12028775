"""How a machine is computed, as data, and the rules by which a row is settled."""
