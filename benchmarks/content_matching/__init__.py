"""Content matching: which of many subscriptions a publication matches, beside other ways to find out."""
