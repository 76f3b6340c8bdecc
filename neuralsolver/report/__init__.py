"""Tables and figures: functions of what was computed elsewhere."""
