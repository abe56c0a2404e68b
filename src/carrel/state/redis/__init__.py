"""Store in Redis or Valkey: state that replicas on any number of machines share."""
