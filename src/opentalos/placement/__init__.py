"""Pure placement: who serves which partition, and the schedule info that says so."""
