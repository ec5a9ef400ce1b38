"""What a change of subscriptions would do to a broker: PRESS, and equations 4.1 to 4.16."""
