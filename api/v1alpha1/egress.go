package v1alpha1

// WantsEgress reports whether the labels of a Service, or of its EndpointSlice, ask for packets of its pods to leave the cluster with the
// address of the Service.
func WantsEgress(labels map[string]string) bool { return labels[EgressLabel] == "true" }
