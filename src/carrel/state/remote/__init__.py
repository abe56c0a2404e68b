"""Store that processes on one machine share over sockets: one process holds it in memory, and the others call it."""
