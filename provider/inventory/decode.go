package inventory

import (
	"github.com/ccmadm/ccmadm/api/config"
)

const kind = config.InventoryKind

// maxBytes is far beyond what 100,000 machines need, and keeps a server that
// never ends its answer from filling the memory.
const maxBytes = 64 << 20

// Decode decodes strictly, sets defaults, and validates: the error names every
// field that is wrong, with its line and path. A file that ends early between two
// documents must not pass for a shorter inventory: there is exactly one.
func Decode(data []byte) (*Inventory, error) {
	document, err := config.DecodeInventory("", data)
	if err != nil {
		return nil, err
	}
	return newInventory(document), nil
}
