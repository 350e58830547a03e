package manager

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// existingFiles are the provider's files that are in use, with those over them that this run names. The environment of
// whoever runs it says nothing: it may be for another cluster.
func existingFiles(ctx context.Context, r *workflow.Run, s *settings.Settings) (map[string][]byte, error) {
	if r.Said.Credentials != nil && len(r.Said.Credentials) == 0 {
		return nil, finding.Usagef("credentials: an empty list would take all away").
			WithHint("leave it out: what is not named stays")
	}
	files, err := filesInUse(ctx, r.Env, s)
	if err != nil {
		return nil, err
	}
	named, err := namedFiles(r, s)
	if err != nil {
		return nil, err
	}
	if files == nil && len(named) == 0 {
		if err := refuseNoFiles(ctx, r.Env, s); err != nil {
			return nil, err
		}
	}
	all := map[string][]byte{}
	maps.Copy(all, files)
	maps.Copy(all, named)
	return all, nil
}

// filesInUse are those of the Secret, or those that this machine has: in the static pod's folder, or where its own record
// says that they were read.
func filesInUse(ctx context.Context, env *workflow.Env, s *settings.Settings) (map[string][]byte, error) {
	files, err := keptFiles(ctx, env, s)
	if err != nil || files != nil {
		return files, err
	}
	rec, err := env.Machine.Record()
	if err != nil || rec == nil || rec.Configuration.Provider != s.Provider ||
		rec.Configuration.CloudConfig.File == "" && len(rec.Configuration.Credentials) == 0 {
		return nil, err
	}
	files, err = readNamed(&rec.Configuration, s.Profile, env.Getenv)
	if err != nil {
		return nil, finding.Refusedf("restore Secret/kube-system/%s: %w", v1alpha1.CloudConfigName, err).
			WithHint("ccmadm apply -f FILE with cloudConfig and credentials makes it again; nothing was changed")
	}
	return files, nil
}

// joinedFiles are those that a control plane gets when it joins, or runs that phase again: those of the Secret, or else its own.
func joinedFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) (map[string][]byte, error) {
	files, err := keptFiles(ctx, env, s)
	if err != nil || files != nil {
		return files, err
	}
	return nil, refuseNoFiles(ctx, env, s)
}

// refuseNoFiles tells a provider that has no files from one whose files are lost.
func refuseNoFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) error {
	if err := refuseLostFiles(ctx, env); err != nil {
		return err
	}
	if err := s.Profile.CheckConfig(nil, ""); err != nil {
		return finding.Refusedf("find the provider's files: %w", err).WithHint("nothing was changed")
	}
	return nil
}

// refuseLostFiles finds a Secret that was there and is not: without it the manager would run on, with nothing to go by.
func refuseLostFiles(ctx context.Context, env *workflow.Env) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	listed := false
	for _, name := range []string{v1alpha1.AppliedName, v1alpha1.FormerAppliedName} {
		var applied *corev1.ConfigMap
		err := journal.Ask(ctx, func(ctx context.Context) (err error) {
			applied, err = client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return finding.Refusedf("look for the provider's files: %w", err).WithHint("nothing was changed")
		}
		_, has := applied.Data[v1alpha1.Namespace+"_"+v1alpha1.CloudConfigName+"__Secret"]
		listed = listed || has
	}
	if !listed {
		return nil
	}
	err = journal.Ask(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
		return err
	})
	if err == nil { // it has the files of the provider of before
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return finding.Refusedf("look for the provider's files: %w", err).WithHint("nothing was changed")
	}
	return finding.Refusedf("find the provider's files: Secret/%s/%s is gone, and this machine has no copy",
		v1alpha1.Namespace, v1alpha1.CloudConfigName).
		WithHint("ccmadm apply -f FILE with cloudConfig and credentials makes it again; nothing was changed")
}
