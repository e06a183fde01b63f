"""Grade what LLM agents did: traces of tool calls, contracts about them, and proof of both."""
