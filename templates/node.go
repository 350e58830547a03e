package templates

import "strings"

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
