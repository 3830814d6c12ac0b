"""The HTTP interface of the controller: who may use it, what it answers, and how much it takes on."""
