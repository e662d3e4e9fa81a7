"""The shop: orders are charged, confirmed, invoiced and shipped by jobs."""
