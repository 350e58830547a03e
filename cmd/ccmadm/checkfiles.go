package main

import (
	"bytes"
	"fmt"

	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/templates"
)

// checkFiles reads the files of our own provider as it will read them itself: what it would refuse there is said
// before anything is changed, and not by a pod that does not start.
func checkFiles(name string, files map[string][]byte) error {
	if name != provider.Name {
		return nil
	}
	profile, err := templates.Load(name)
	if err != nil {
		return err
	}
	config, err := provider.ReadConfiguration(bytes.NewReader(files[profile.Config.File]))
	if err != nil {
		return fmt.Errorf("%s: %w", profile.Config.File, err)
	}
	document, given := files[profile.Config.Inventory.Key]
	if !given {
		return nil
	}
	list, err := inventory.Decode(document)
	if err != nil {
		return fmt.Errorf("%s: %w", profile.Config.Inventory.Key, err)
	}
	if config.Inventory != nil && config.Site != "" && config.Site != list.Metadata.Site {
		return fmt.Errorf("%s: it is that of site %q, and %s wants %q",
			profile.Config.Inventory.Key, list.Metadata.Site, profile.Config.File, config.Site)
	}
	return nil
}
