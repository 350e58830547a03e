package phases

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// nodeChecks are what the provider expects of the machine. A machine that joins knows the provider from the record.
func nodeChecks() []Check {
	return []Check{
		{finding.CheckNodeName, checkNodeNameRule},
		{finding.CheckNodeAddress, checkNodeAddress},
		{finding.CheckProviderID, checkProviderID},
	}
}

// checkNodeNameRule finds a name by which the cloud does not know the machine. Such a node keeps its taint, or worse:
// the lifecycle controller takes it for one that is gone.
func checkNodeNameRule(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	profile := s.Profile
	name, err := nodeName(d)
	if err != nil {
		return err
	}
	rules := profile.Node
	if ok, err := regexp.MatchString(rules.NamePattern, name); err != nil || !ok {
		return finding.Usagef("node name %q: provider %s wants %s (%s)", name, profile.Name, rules.Name, rules.NamePattern).
			WithHint("--node-name=NAME, or another host name")
	}
	id, err := givenKubeletArg(d, "provider-id")
	if err != nil || id != "" || len(rules.NameFrom) == 0 || profile.Metadata == nil {
		return err // a provider ID makes the name irrelevant
	}
	values, err := d.Metadata(ctx, profile.Metadata)
	if err != nil {
		d.Sayf("warning, the node's name is not checked, %v; provider %s wants: %s", err, profile.Name, rules.Name)
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
func checkNodeAddress(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil || len(s.Profile.Node.AddressesFrom) == 0 || s.Profile.Metadata == nil {
		return err
	}
	profile := s.Profile
	ips, err := nodeIPInUse(ctx, d, s)
	if err != nil {
		return err
	}
	values, err := d.Metadata(ctx, profile.Metadata)
	if err != nil {
		d.Sayf("warning, the node IP is not checked, %v", err)
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
			d.Sayf("warning, node IP %s: provider %s knows this machine at %s; with an address that the cloud does not list, the node stays uninitialized: set nodeIP (--node-ip)",
				ip, profile.Name, machine.JoinAddresses(known, ", "))
		}
	}
	return nil
}

// nodeIPInUse is what the kubelet will be given, by the user or by us.
func nodeIPInUse(ctx context.Context, d *Data, s *Settings) ([]netip.Addr, error) {
	text, err := givenKubeletArg(d, "node-ip")
	if err != nil {
		return nil, err
	}
	if text == "" {
		if text, err = nodeIP(ctx, d, s.NodeIP, s.PodSubnet); err != nil {
			return nil, err
		}
	}
	return v1alpha1.ParseAddresses(text)
}

// checkProviderID finds out whether the kubelet can be given the ID that the provider needs.
func checkProviderID(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	_, err = kubeletProviderID(ctx, d, s)
	return err
}

// kubeletProviderID is what the kubelet's --provider-id has to be, where the provider finds a machine by nothing else
// and the user has not set it.
func kubeletProviderID(ctx context.Context, d *Data, s *Settings) (string, error) {
	if !s.Profile.Node.KubeletProviderID {
		return "", nil
	}
	if id, err := givenKubeletArg(d, "provider-id"); err != nil || id != "" {
		return "", err
	}
	id, err := providerIDFromMetadata(ctx, d, s.Profile)
	if err != nil {
		return "", finding.Preflightf("%w", err).
			WithHint("nodeRegistration.kubeletExtraArgs provider-id=%s in the kubeadm configuration sets it", s.Profile.Node.ProviderID)
	}
	return id, nil
}

func providerIDFromMetadata(ctx context.Context, d *Data, profile *templates.Profile) (string, error) {
	missing := fmt.Errorf("provider %s finds a machine only by the kubelet's --provider-id, which is not set", profile.Name)
	if profile.Metadata == nil || profile.Node.ProviderIDFrom == "" {
		return "", missing
	}
	values, err := d.Metadata(ctx, profile.Metadata)
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

// checkProvider tells the user what the profile is worth, and what was seen where the machine was asked.
func checkProvider(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	if d.Said.Provider == v1alpha1.ProviderAuto && s.Recorded == nil {
		found, err := Detect(d.Machine)
		if err != nil {
			return err
		}
		d.Sayf("provider %s: this machine says %s", found.Provider, strings.Join(found.Saw, ", "))
	}
	if s.Profile.Instead != "" {
		d.Sayf("warning, provider %s is %s: %s", s.Profile.Name, s.Profile.Status, s.Profile.Instead)
	}
	return compatible(&s.CloudConfiguration, s.Profile)
}

// warnReadable tells of files with secrets that every user of the machine may read.
func warnReadable(d *Data, settings *v1alpha1.CloudConfiguration) {
	paths := []string{settings.CloudConfig.File}
	for _, c := range settings.Credentials {
		paths = append(paths, c.File)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			d.Sayf("warning, every user of this machine can read %s (%s): chmod 600 %s", path, info.Mode().Perm(), path)
		}
	}
}
