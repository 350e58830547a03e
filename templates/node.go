package templates

import "strings"

// NodeRules say what a provider expects of a machine's kubelet. A node that breaks them is never found in the cloud:
// its taint stays, or it is taken for a machine that is gone, and deleted.
type NodeRules struct {
	// Name says for people what the node's name has to be.
	Name string `json:"name,omitempty"`
	// NameFrom are texts over the values of Metadata; the node's name has to be one of them, where * stands for any
	// letters. Empty: not checked.
	NameFrom []string `json:"nameFrom,omitempty"`
	// NamePattern is a regular expression that the node's name has to match. Empty: any name.
	NamePattern string `json:"namePattern,omitempty"`
	// AddressesFrom are texts over the values of Metadata that give addresses by which the cloud knows the machine, one
	// or several. A node IP that is none of them is warned of: if the cloud does not list it, the taint stays.
	AddressesFrom []string `json:"addressesFrom,omitempty"`
	// ProviderID says for people what a provider ID looks like.
	ProviderID string `json:"providerID,omitempty"`
	// ProviderIDFrom is a text over the values of Metadata that gives it. Empty: only the cloud knows.
	ProviderIDFrom string `json:"providerIDFrom,omitempty"`
	// KubeletProviderID says that the kubelet has to be started with --provider-id, for the provider finds the machine
	// by nothing else. It is then set from ProviderIDFrom unless the user has done so.
	KubeletProviderID bool `json:"kubeletProviderID,omitempty"`
}

// Metadata is an HTTP service at a link-local address, by which a machine learns who it is.
type Metadata struct {
	// URL is its address, without a path.
	URL string `json:"url"`
	// Headers are sent with each request.
	Headers map[string]string `json:"headers,omitempty"`
	// Token is fetched first, where the service wants one.
	Token *MetadataToken `json:"token,omitempty"`
	// Values are what can be learnt: a name, and the path that gives it. Behind a # stand the keys that lead to it in
	// a JSON answer: /v1.json#instance.id
	Values map[string]string `json:"values"`
}

// MetadataToken is a secret that a PUT request returns and that is sent with every later one.
type MetadataToken struct {
	// Path gives it.
	Path string `json:"path"`
	// Headers are sent with the PUT request.
	Headers map[string]string `json:"headers,omitempty"`
	// Header is the one that carries it.
	Header string `json:"header"`
}

// ExpandName returns the names that the node may have, given what the metadata service said.
func (n NodeRules) ExpandName(metadata map[string]string) ([]string, error) {
	return expandAll(n.NameFrom, metadata)
}

// ExpandAddresses returns the addresses at which the metadata service says that the machine is.
func (n NodeRules) ExpandAddresses(metadata map[string]string) ([]string, error) {
	lists, err := expandAll(n.AddressesFrom, metadata)
	return strings.Fields(strings.Join(lists, " ")), err
}

// expandAll returns what becomes of texts, but for those to which the service said nothing.
func expandAll(texts []string, metadata map[string]string) ([]string, error) {
	var all []string
	for _, text := range texts {
		expanded, err := expand(text, fromMap(metadata))
		if err != nil {
			return nil, err
		}
		if expanded != "" {
			all = append(all, expanded)
		}
	}
	return all, nil
}

// ExpandProviderID returns the machine's provider ID, empty where the service did not say enough.
func (n NodeRules) ExpandProviderID(metadata map[string]string) (string, error) {
	return expand(n.ProviderIDFrom, fromMap(metadata))
}
