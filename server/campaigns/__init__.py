"""REST routes, replies and commands of `campaign_search`."""
