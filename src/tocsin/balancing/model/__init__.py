"""The load model: which subscriber is at which broker, and what-if copies of it."""
