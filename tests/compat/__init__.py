"""Programs written for other packages of the protocol, on Carrel and on the original."""
