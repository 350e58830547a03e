package bootstrap

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// InitPreflight checks a machine that is to make a cluster. It reports all failures together.
func InitPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check that this machine can become a control plane in external cloud mode",
		Long:    "Reads the host, the kubeadm configuration, the profile, credentials, and every file that feeds the kubelet's command line; where kubeadm has finished already, the cluster's record. Writes nothing.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			return workflow.RunChecks(ctx, r, slices.Concat(
				[]workflow.Check{
					{ID: finding.CheckClusterRecord, Run: CheckClusterRecord},
					{ID: finding.CheckKubeadmVersion, Run: checkKubeadm}, // which the settings need
					{ID: finding.CheckProvider, Run: record.CheckProvider},
				},
				commonChecks(),
				kubelet.NodeChecks(),
				[]workflow.Check{
					{ID: finding.CheckExternalCA, Run: manager.CheckExternalCA},
					{ID: finding.CheckCloudConfig, Run: manager.CheckCloudConfig},
					{ID: finding.CheckStaticPod, Run: manager.CheckManifestUntouched},
					{ID: finding.CheckManifests, Run: manager.CheckManifests},
					{ID: finding.CheckImages, Run: manager.CheckImages},
					{ID: finding.CheckVIP, Run: checkVIP},
				}))
		},
	}
}

// JoinPreflight checks a machine that is to join a cluster. It reports all failures together.
func JoinPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check that this machine can join in external cloud mode",
		Long:    "Reads the host, the kubeadm configuration, and every file that feeds the kubelet's command line. Writes nothing.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			return workflow.RunChecks(ctx, r, slices.Concat(
				[]workflow.Check{{ID: finding.CheckKubeadmVersion, Run: checkKubeadm}},
				commonChecks(),
				[]workflow.Check{{ID: finding.CheckDiscovery, Run: checkDiscovery}},
			))
		},
	}
}

func commonChecks() []workflow.Check {
	return []workflow.Check{
		{ID: finding.CheckPrivileged, Run: workflow.CheckRoot},
		{ID: finding.CheckKubeletInUse, Run: record.CheckKubeletInUse},
		{ID: finding.CheckKubeletFlags, Run: kubelet.CheckKubeletFlags},
		{ID: finding.CheckKubeadmConfig, Run: checkKubeadmConfig},
		{ID: finding.PatchFile, Run: checkPatches},
		{ID: finding.CheckNodeTaints, Run: checkTaints},
		{ID: finding.CheckNodeIP, Run: checkNodeIP},
		{ID: finding.CheckWritable, Run: workflow.CheckWritable},
	}
}

func checkKubeadm(ctx context.Context, r *workflow.Run) error {
	v, err := r.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	return kubeadm.CheckVersion(v)
}

// CheckClusterRecord compares what the user says with what holds in the cluster that this machine has already.
func CheckClusterRecord(ctx context.Context, r *workflow.Run) error {
	if r.Single {
		return nil
	}
	rec, err := record.ClusterRecord(ctx, r)
	if err != nil || rec == nil {
		return err
	}
	if file := r.KubeadmFile.PodSubnet(); file != "" && file != rec.PodSubnet {
		return finding.Refusedf("init with networking.podSubnet %q: the cluster's record says %q", file, rec.PodSubnet).
			WithHint("leave it out: this machine has a cluster, whose networks do not change")
	}
	if err := sayOlderVersion(r); err != nil {
		return err
	}
	return record.RefuseContradictions(record.InitContradicted(), r.Said, rec)
}

// checkKubeadmConfig finds what stands in the way of external mode in the user's own file, on a copy of it, and then has
// the installed kubeadm validate it, whose rules are stricter than those of its init and join.
func checkKubeadmConfig(ctx context.Context, r *workflow.Run) error {
	v, err := r.KubeadmVersion(ctx)
	if err != nil {
		return nil //nolint:nilerr // another check says so
	}
	file, err := kubeadm.Parse(r.ConfigFile, r.KubeadmFile.Bytes())
	if err != nil {
		return err
	}
	if _, err = file.SetExternal(r.Role, kubeadm.KubeletFlags{}, int(v.Minor())); err != nil {
		return err
	}
	if done, err := workflow.KubeadmFinished(r.Host); err != nil || done { // it is not run again: a file of its day may be too old for it now
		return err
	}
	return kubeadm.Validate(ctx, r.Machine, r.KubeadmFile)
}

// checkPatches refuses patches that the installed kubeadm would pass over, or end with in the middle of its work.
func checkPatches(ctx context.Context, r *workflow.Run) error {
	dir := r.KubeadmFile.PatchesOf(r.Role)
	v, err := r.KubeadmVersion(ctx)
	if err != nil || dir == "" {
		return nil //nolint:nilerr // another check says so
	}
	if done, err := workflow.KubeadmFinished(r.Host); err != nil || done { // it is not run again
		return err
	}
	if filepath.IsAbs(dir) { // else it depends on where the command is run
		dir = r.Machine.Path(dir)
	}
	of := kubeadm.PatchedMinors{}
	if of.Kubeadm, err = minors.Of(v.String()); err != nil {
		return err
	}
	if r.Role == kubeadm.RoleInit { // one that joins has the cluster's version, which is not known yet
		of.Components = installs(r.KubeadmFile.KubernetesVersion(), of.Kubeadm)
	}
	found, err := kubeadm.LintPatches(dir, of)
	if err != nil {
		return err
	}
	return kubeadm.RefusePatches(found)
}

// installs is the minor that kubeadm of a minor installs by a version or a label, as stable-1.36: that before its own, too.
func installs(version, kubeadm string) string {
	if i := strings.LastIndex(version, "-"); i >= 0 && !strings.Contains(version[:i], ".") {
		version = version[i+1:]
	}
	if minor, err := minors.Of(version); err == nil {
		return minor
	}
	return kubeadm // without a version
}

// checkTaints refuses the taint of external mode among those that the kubelet is told to register with. It adds that
// taint itself, and the API refuses a Node that has it twice (kubernetes/kubernetes, kubelet_node_status.go).
func checkTaints(_ context.Context, r *workflow.Run) error {
	const why = "the kubelet sets the taint " + v1alpha1.UninitializedTaint + " in external mode itself, and a Node that has it twice is refused"
	if slices.Contains(r.KubeadmFile.Taints(r.Role), v1alpha1.UninitializedTaint) {
		return finding.Usagef("%staints: %s", filePrefix(r.ConfigFile), why).
			WithHint("remove it from nodeRegistration.taints and registerWithTaints")
	}
	given, _ := r.KubeadmFile.KubeletArg(r.Role, "register-with-taints")
	if strings.Contains(given, v1alpha1.UninitializedTaint) {
		return finding.Usagef("%skubeletExtraArgs register-with-taints: %s", filePrefix(r.ConfigFile), why).
			WithHint("remove it there")
	}
	uses, err := r.Machine.KubeletFlags("register-with-taints")
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
func checkNodeIP(ctx context.Context, r *workflow.Run) error {
	_, err := record.NodeIP(ctx, r.Host, &r.Said, r.KubeadmFile.PodSubnet())
	return err
}

func checkDiscovery(_ context.Context, r *workflow.Run) error {
	if !r.KubeadmFile.CanDiscover() {
		return finding.Usagef("no cluster to join").
			WithHint("ccmadm join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH, as `ccmadm init` printed it")
	}
	return nil
}
