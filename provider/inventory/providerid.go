package inventory

import (
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
)

// Scheme starts every provider ID of ours. Never change it: provider IDs are immutable.
const Scheme = "onprem"

// NamePrefix keeps ids made from a Node's name apart from the others, which are
// hexadecimal: no UUID and no machine-id starts like this. Never change it.
const NamePrefix = "node-"

// ProviderID joins site and id. Never change the form: provider IDs are immutable.
func ProviderID(site, id string) string { return Scheme + "://" + site + "/" + id }

// Split takes a provider ID of ours apart.
func Split(providerID string) (site, id string, ours bool) {
	rest, ours := strings.CutPrefix(providerID, Scheme+"://")
	if !ours {
		return "", "", false
	}
	site, id, _ = strings.Cut(rest, "/")
	return site, id, true
}

// Adopted reports whether an id was made from what a Node showed of itself.
func Adopted(id string) bool { return strings.HasPrefix(id, NamePrefix) || config.Hex128(id) != "" }
