package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
)

func initPreflight() Phase {
	return Phase{
		Name:    "preflight",
		Journal: JournalNever,
		Short:   "Check that this machine can become a control plane in external cloud mode",
		Long:    "Reads the host, the kubeadm configuration, the profile, credentials, and every file that feeds the kubelet's command line; where kubeadm has finished already, the cluster's record. Writes nothing.",
		Run: func(ctx context.Context, d *Data) error {
			return runChecks(ctx, d, slices.Concat(
				[]Check{
					{finding.CheckClusterRecord, checkClusterRecord},
					{finding.CheckKubeadmVersion, checkKubeadm}, // which the settings need
					{finding.CheckProvider, checkProvider},
				},
				commonChecks(),
				nodeChecks(),
				[]Check{
					{finding.CheckExternalCA, checkExternalCA},
					{finding.CheckCloudConfig, checkCloudConfig},
					{finding.CheckStaticPod, checkManifestUntouched},
					{finding.CheckManifests, checkManifests},
					{finding.CheckVIP, checkVIP},
				}))
		},
	}
}

func joinPreflight() Phase {
	return Phase{
		Name:    "preflight",
		Journal: JournalNever,
		Short:   "Check that this machine can join in external cloud mode",
		Long:    "Reads the host, the kubeadm configuration, and every file that feeds the kubelet's command line. Writes nothing.",
		Run: func(ctx context.Context, d *Data) error {
			return runChecks(ctx, d, slices.Concat(
				[]Check{{finding.CheckKubeadmVersion, checkKubeadm}},
				commonChecks(),
				[]Check{{finding.CheckDiscovery, checkDiscovery}},
			))
		},
	}
}

func commonChecks() []Check {
	return []Check{
		{finding.CheckPrivileged, checkRoot},
		{finding.CheckKubeletInUse, checkKubeletInUse},
		{finding.CheckKubeletFlags, checkKubeletFlags},
		{finding.CheckKubeadmConfig, checkKubeadmConfig},
		{finding.CheckNodeTaints, checkTaints},
		{finding.CheckNodeIP, checkNodeIP},
		{finding.CheckWritable, checkWritable},
	}
}

func checkRoot(_ context.Context, d *Data) error {
	if !d.Machine.Superuser {
		return finding.Preflightf("not root").WithHint("the same command behind sudo")
	}
	return nil
}

func checkKubeadm(ctx context.Context, d *Data) error {
	v, err := d.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	return kubeadm.CheckVersion(v)
}

// checkClusterRecord compares what the user says with what holds in the cluster that this machine has already.
func checkClusterRecord(ctx context.Context, d *Data) error {
	if d.Single {
		return nil
	}
	rec, err := clusterRecord(ctx, d)
	if err != nil || rec == nil {
		return err
	}
	if file := d.KubeadmFile.PodSubnet(); file != "" && file != rec.PodSubnet {
		return finding.Refusedf("init with networking.podSubnet %q: the cluster's record says %q", file, rec.PodSubnet).
			WithHint("leave it out: this machine has a cluster, whose networks do not change")
	}
	if err := sayOlderVersion(d); err != nil {
		return err
	}
	return refuseContradictions("init", d.Said, rec)
}

// checkKubeletFlags refuses flags that would win over what ccmadm sets, in any file that feeds the kubelet.
func checkKubeletFlags(_ context.Context, d *Data) error {
	uses, err := d.Machine.KubeletFlags("cloud-provider", "cloud-config")
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

// checkKubeadmConfig finds what stands in the way of external mode in the user's own file, on a copy of it, and then has
// the installed kubeadm validate it, whose rules are stricter than those of its init and join.
func checkKubeadmConfig(ctx context.Context, d *Data) error {
	v, err := d.KubeadmVersion(ctx)
	if err != nil {
		return nil //nolint:nilerr // another check says so
	}
	file, err := kubeadm.Parse(d.ConfigFile, d.KubeadmFile.Bytes())
	if err != nil {
		return err
	}
	if _, err = file.SetExternal(d.Role, kubeadm.KubeletFlags{}, int(v.Minor())); err != nil {
		return err
	}
	if done, err := finished(d); err != nil || done { // it is not run again: a file of its day may be too old for it now
		return err
	}
	return kubeadm.Validate(ctx, d.Machine, d.KubeadmFile)
}

// checkTaints refuses the taint of external mode among those that the kubelet is told to register with. It adds that
// taint itself, and the API refuses a Node that has it twice (kubernetes/kubernetes, kubelet_node_status.go).
func checkTaints(_ context.Context, d *Data) error {
	const why = "the kubelet sets the taint " + v1alpha1.UninitializedTaint + " in external mode itself, and a Node that has it twice is refused"
	if slices.Contains(d.KubeadmFile.Taints(d.Role), v1alpha1.UninitializedTaint) {
		return finding.Usagef("%staints: %s", filePrefix(d.ConfigFile), why).
			WithHint("remove it from nodeRegistration.taints and registerWithTaints")
	}
	given, _ := d.KubeadmFile.KubeletArg(d.Role, "register-with-taints")
	if strings.Contains(given, v1alpha1.UninitializedTaint) {
		return finding.Usagef("%skubeletExtraArgs register-with-taints: %s", filePrefix(d.ConfigFile), why).
			WithHint("remove it there")
	}
	uses, err := d.Machine.KubeletFlags("register-with-taints")
	if err != nil {
		return err
	}
	for _, u := range uses {
		if strings.Contains(u.Value, v1alpha1.UninitializedTaint) {
			return finding.Usagef("%s: %s", u, why).WithHint("remove it there")
		}
	}
	return nil
}

func filePrefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

// checkNodeIP goes by what the user said: a machine that joins has not read the cluster's record yet.
func checkNodeIP(ctx context.Context, d *Data) error {
	_, err := nodeIP(ctx, d, d.Said.NodeIP, d.KubeadmFile.PodSubnet())
	return err
}

// checkWritable finds a read-only or full file system before the first file is half done. It asks the kernel and
// leaves no trace, since a dry run must not.
func checkWritable(_ context.Context, d *Data) error {
	const enough = 1 << 20 // bytes; everything that ccmadm writes is below 100 kB
	var wrong []error
	for _, dir := range []string{machine.ConfigDir, filepath.Dir(machine.CCMKubeconfig), machine.ManifestDir, filepath.Dir(machine.KubeletDropIn)} {
		existing := d.Machine.Path(dir)
		for {
			if _, err := os.Stat(existing); err == nil {
				break
			}
			existing = filepath.Dir(existing)
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(existing, &fs); err != nil {
			wrong = append(wrong, fmt.Errorf("look at the file system of %s: %w", dir, err))
			continue
		}
		const readOnly = 1 // ST_RDONLY
		if fs.Flags&readOnly != 0 {
			wrong = append(wrong, fmt.Errorf("%s is on a read-only file system", dir))
		} else if free := fs.Bavail * uint64(fs.Bsize); free < enough {
			wrong = append(wrong, fmt.Errorf("%s: the disk is full (%d bytes left)", dir, free))
		}
	}
	return errors.Join(wrong...)
}

// checkManifests makes all that later phases write or apply, and keeps none of it: an image that nobody knows or a
// setting without which the provider cannot run must not show when half a cluster is there.
func checkManifests(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil || s.Mode == v1alpha1.ModeManual {
		return err
	}
	trial := *d
	trial.DryRun = true // there is no CA yet that names the cluster, and no endpoint
	files, err := cloudFiles(ctx, &trial, s)
	if err != nil {
		return err
	}
	v, err := values(&trial, s, files)
	if err != nil {
		return err
	}
	if v.Endpoint, err = endpointForPods(&trial); err != nil {
		return err
	}
	if s.Mode == v1alpha1.ModeStaticPod {
		if _, err = manifests.StaticPod(s.Profile, v); err != nil {
			return err
		}
	}
	_, err = manifests.Addon(s.Profile, v)
	return err
}

func checkDiscovery(_ context.Context, d *Data) error {
	if !d.KubeadmFile.CanDiscover() {
		return finding.Usagef("no cluster to join").
			WithHint("ccmadm join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH, as `ccmadm init` printed it")
	}
	return nil
}
