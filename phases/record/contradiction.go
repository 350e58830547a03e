package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// saidOf is what the user said, without what finding it out again would change.
func saidOf(r *workflow.Run, rec *state.Record) config.CloudConfiguration {
	said := r.Said
	r.Operation.Said(&said, rec)
	if rec != nil && said.ControllerManager.Version == settings.TagOf(rec.Configuration.ControllerManager.Image) {
		said.ControllerManager.Version = "" // the image that is there, wherever it comes from
	}
	if rec != nil && said.Mode == config.ModeAuto {
		said.Mode = "" // it was found on the first day
	}
	if rec != nil && said.Provider == config.ProviderAuto {
		said.Provider = ""
	}
	return said
}

// Contradicted is an operation whose user said something else than the cluster's record.
type Contradicted struct {
	// Command names it in the error.
	Command string
	// Hint says what to do.
	Hint string
	// Unpublished says that its record may not be published yet: one that was has a complete image.
	Unpublished bool
}

// RefuseContradictions compares all that the user said in this run with what holds in the cluster, field by field. The
// node IP is the machine's own affair, and so is the patience of waiting. What was not said is taken from the record.
func RefuseContradictions(by Contradicted, said config.CloudConfiguration, rec *state.Record) error {
	known := rec.Configuration
	untried := known.ControllerManager.Image == "" && by.Unpublished
	var wrong []error
	for _, c := range contradictions(said, known) {
		if untried && (strings.HasPrefix(c.field, "controllerManager.") || c.field == "nodeAgent.image") {
			continue
		}
		if (c.said != "" || c.empty) && c.said != c.known {
			wrong = append(wrong, fmt.Errorf("%s with %s %q: the cluster's record says %q",
				by.Command, c.field, redact.Text(c.said), redact.Text(c.known)))
		}
	}
	if said.Profile != "" {
		data, err := os.ReadFile(said.Profile)
		if err != nil {
			return finding.Usagef("read profile: %w", err)
		}
		if string(data) != rec.Profile {
			wrong = append(wrong, fmt.Errorf("%s with %s: it is not the profile of the cluster's record, whose provider is %s", by.Command, said.Profile, known.Provider))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return finding.Refusedf("%w", errors.Join(wrong...)).WithHint("%s", by.Hint)
}

// contradictable is a setting as text; empty says that it was given, as an empty list.
type contradictable struct {
	field, said, known string
	empty              bool
}

func contradictions(said, known config.CloudConfiguration) []contradictable {
	provider := said.Provider
	if provider == config.ProviderAuto {
		provider = "" // the machine is asked, and the answer may differ from one to the next
	}
	mode := said.Mode
	if mode == config.ModeAuto {
		mode = ""
	}
	list := []contradictable{
		{field: "provider", said: provider, known: known.Provider},
		{field: "clusterName", said: said.ClusterName, known: known.ClusterName},
		{field: "mode", said: string(mode), known: string(known.Mode)},
		{field: "controllerManager.image", said: said.ControllerManager.Image, known: known.ControllerManager.Image},
		{field: "controllerManager.version", said: said.ControllerManager.Version, known: settings.TagOf(known.ControllerManager.Image)},
		listed("controllerManager.extraArgs", said.ControllerManager.ExtraArgs, known.ControllerManager.ExtraArgs),
		listed("controllerManager.extraEnv", said.ControllerManager.ExtraEnv, known.ControllerManager.ExtraEnv),
		{field: "controlPlaneVIP.address", said: said.ControlPlaneVIP.Address, known: known.ControlPlaneVIP.Address},
		{
			field: "controlPlaneVIP.bgp",
			said:  routersOf(said.ControlPlaneVIP.BGP), known: routersOf(known.ControlPlaneVIP.BGP),
		},
		{field: "nodeAgent.image", said: said.NodeAgent.Image, known: known.NodeAgent.Image},
		listed("servingCertificates.addressRanges", said.ServingCertificates.AddressRanges, known.ServingCertificates.AddressRanges),
		listed("servingCertificates.names", said.ServingCertificates.Names, known.ServingCertificates.Names),
		{field: "lifecycle", said: string(said.Lifecycle), known: string(known.Lifecycle)},
	}
	if said.Routes != nil {
		list = append(list, contradictable{field: "routes", said: strconv.FormatBool(*said.Routes), known: strconv.FormatBool(known.WantsRoutes())})
	}
	if said.NodeAgent.Enabled != nil {
		wants := strconv.FormatBool(ptr.Deref(known.NodeAgent.Enabled, false))
		list = append(list, contradictable{field: "nodeAgent.enabled", said: strconv.FormatBool(*said.NodeAgent.Enabled), known: wants})
	}
	if said.ServingCertificates.Enabled != nil {
		list = append(list, contradictable{
			field: "servingCertificates.enabled", said: strconv.FormatBool(*said.ServingCertificates.Enabled),
			known: strconv.FormatBool(known.WantsServingCertificates()),
		})
	}
	return list
}

// routersOf are those of the control plane's own address, as text; empty: there are none.
func routersOf(bgp *config.ControlPlaneVIPBGP) string {
	if bgp == nil {
		return ""
	}
	text, _ := json.Marshal(bgp) // numbers and text
	return strings.ReplaceAll(string(text), `"`, "")
}

// listed is a list as a setting; one that is empty and was given says something, too.
func listed(field string, said, known []string) contradictable {
	return contradictable{field: field, said: strings.Join(said, " "), known: strings.Join(known, " "), empty: said != nil}
}
