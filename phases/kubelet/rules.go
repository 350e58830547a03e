package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// NodeChecks are what the provider expects of the machine. A machine that joins knows the provider from the record.
func NodeChecks() []workflow.Check {
	return []workflow.Check{
		{ID: finding.CheckNodeName, Run: checkNodeNameRule},
		{ID: finding.CheckNodeAddress, Run: checkNodeAddress},
		{ID: finding.CheckProviderID, Run: checkProviderID},
	}
}

// checkNodeNameRule finds a name by which the cloud does not know the machine. Such a node keeps its taint, or worse:
// the lifecycle controller takes it for one that is gone.
func checkNodeNameRule(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	profile := s.Profile
	name, err := workflow.NodeName(r.Host)
	if err != nil {
		return err
	}
	rules := profile.Node
	if ok, err := regexp.MatchString(rules.NamePattern, name); err != nil || !ok {
		return finding.Usagef("node name %q: provider %s wants %s (%s)", name, profile.Name, rules.Name, rules.NamePattern).
			WithHint("--node-name=NAME, or another host name")
	}
	id, err := record.GivenKubeletArg(r.Host, "provider-id")
	if err != nil || id != "" || len(rules.NameFrom) == 0 || profile.Metadata == nil {
		return err // a provider ID makes the name irrelevant
	}
	values, err := r.Metadata(ctx, profile.Metadata)
	if err != nil {
		r.Sayf("warning, the node's name is not checked, %v; provider %s wants: %s", err, profile.Name, rules.Name)
		return nil
	}
	names, err := rules.ExpandName(values)
	if err != nil {
		return err
	}
	same := func(known string) bool { // without case: kubelets lower their names, clouds do not
		ok, err := path.Match(strings.ToLower(known), strings.ToLower(name))
		return err == nil && ok
	}
	if len(names) > 0 && !slices.ContainsFunc(names, same) {
		return finding.Usagef("node name %q: provider %s knows this machine as %s", name, profile.Name, strings.Join(names, " or ")).
			WithHint("--node-name=%s; the rule: %s", names[0], rules.Name)
	}
	return nil
}

// checkNodeAddress warns of a node IP that the cloud may not list: the node controller then says "failed to get node
// address from cloud provider that matches ip", and leaves the taint on. It is no error, since metadata services name
// the first network card, and clouds list all.
func checkNodeAddress(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || len(s.Profile.Node.AddressesFrom) == 0 || s.Profile.Metadata == nil {
		return err
	}
	profile := s.Profile
	ips, err := nodeIPInUse(ctx, r.Host, s)
	if err != nil {
		return err
	}
	values, err := r.Metadata(ctx, profile.Metadata)
	if err != nil {
		r.Sayf("warning, the node IP is not checked, %v", err)
		return nil
	}
	texts, err := profile.Node.ExpandAddresses(values)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		var known []netip.Addr // of the same family
		for _, text := range texts {
			if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() == ip.Is4() {
				known = append(known, addr)
			}
		}
		if len(known) > 0 && !ip.IsUnspecified() && !slices.Contains(known, ip) {
			r.Sayf("warning, node IP %s: provider %s knows this machine at %s; with an address that the cloud does not list, the node stays uninitialized: set nodeIP (--node-ip)",
				ip, profile.Name, machine.JoinAddresses(known, ", "))
		}
	}
	return nil
}

// nodeIPInUse is what the kubelet will be given, by the user or by us.
func nodeIPInUse(ctx context.Context, h *workflow.Host, s *settings.Settings) ([]netip.Addr, error) {
	text, err := record.GivenKubeletArg(h, "node-ip")
	if err != nil {
		return nil, err
	}
	if text == "" {
		if text, err = record.NodeIP(ctx, h, &s.CloudConfiguration, s.PodSubnet); err != nil {
			return nil, err
		}
	}
	return config.ParseAddresses(text)
}

// checkProviderID finds out whether the kubelet can be given the ID that the provider needs.
func checkProviderID(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	_, err = kubeletProviderID(ctx, r.Host, s)
	return err
}

// kubeletProviderID is what the kubelet's --provider-id has to be, where the provider finds a machine by nothing else
// and the user has not set it.
func kubeletProviderID(ctx context.Context, h *workflow.Host, s *settings.Settings) (string, error) {
	if !s.Profile.Node.KubeletProviderID {
		return "", nil
	}
	if id, err := record.GivenKubeletArg(h, "provider-id"); err != nil || id != "" {
		return "", err
	}
	id, err := providerIDFromMetadata(ctx, h, s.Profile)
	if err != nil {
		return "", finding.Preflightf("%w", err).
			WithHint("nodeRegistration.kubeletExtraArgs provider-id=%s in the kubeadm configuration sets it", s.Profile.Node.ProviderID)
	}
	return id, nil
}

func providerIDFromMetadata(ctx context.Context, h *workflow.Host, profile *templates.Profile) (string, error) {
	missing := fmt.Errorf("provider %s finds a machine only by the kubelet's --provider-id, which is not set", profile.Name)
	if profile.Metadata == nil || profile.Node.ProviderIDFrom == "" {
		return "", missing
	}
	values, err := h.Metadata(ctx, profile.Metadata)
	if err != nil {
		return "", fmt.Errorf("%w: %w", missing, err)
	}
	id, err := profile.Node.ExpandProviderID(values)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", fmt.Errorf("%w, and the metadata service %s does not say enough", missing, profile.Metadata.URL)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' || r == 0x7f }) {
		return "", fmt.Errorf("%w, and the metadata service %s says %q, which would become further flags", missing, profile.Metadata.URL, id)
	}
	return id, nil
}

// CheckKubeletFlags refuses flags that would win over what ccmadm sets, in any file that feeds the kubelet.
func CheckKubeletFlags(_ context.Context, r *workflow.Run) error {
	uses, err := r.Machine.KubeletFlags("cloud-provider", "cloud-config")
	if err != nil {
		return err
	}
	var wrong []error
	for _, u := range uses {
		switch {
		case u.Flag == "cloud-config":
			wrong = append(wrong, fmt.Errorf("%s: the kubelet refuses --cloud-config since 1.34; remove it", u))
		case u.Value != "external":
			wrong = append(wrong, fmt.Errorf("%s: must be \"external\" or absent", u))
		}
	}
	return errors.Join(wrong...)
}
