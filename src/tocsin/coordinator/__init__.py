"""The coordinator (the papers' BCS): registers brokers, places subscribers, and balances load by migrations."""
