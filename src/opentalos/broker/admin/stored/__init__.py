"""What is stored, compared with what the catalogue knows: verification, lost topics."""
