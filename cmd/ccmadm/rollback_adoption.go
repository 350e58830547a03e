package main

import (
	"context"
	"fmt"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// adopted goes the way of adopt or leave back, all of it or to before a step. Its preflight shows what would be done,
// and asks.
func (r *rollbacker) adopted(
	ctx context.Context, s phases.Streams, runs []journal.Run, run *journal.Run, step int,
) error {
	how := r.adoption
	how.Via, how.Yes = phases.Via(r.via), r.yes
	if how.Parallel < 1 {
		return usage("read --parallel: %d is less than 1", how.Parallel)
	}
	o, list, err := r.wayBack(ctx, s, runs, run, step, how)
	if err != nil {
		return observed(err)
	}
	o.Force, o.CheckFiles, o.Output = r.options.Force, checkFiles, "text"
	o.Flags.Wait = r.options.Flags.Wait
	outliveReader()
	d, err := phases.New(ctx, machine.New(), *o, s, version)
	if err != nil {
		return err
	}
	return phases.Run(ctx, d, list)
}

// wayBack finds it, and says where it leads.
func (r *rollbacker) wayBack(
	ctx context.Context, s phases.Streams, runs []journal.Run, run *journal.Run, step int, how phases.Adoption,
) (*phases.Options, []phases.Phase, error) {
	if step > 0 {
		if r.givesFiles() {
			return nil, nil, noFiles(run)
		}
		o, list, err := phases.StepBack(runs, run, step, how)
		if err == nil {
			sayBack(s, fmt.Sprintf("step %d of ", step), run)
		}
		return o, list, err
	}
	client, err := phases.ControlPlaneClient(machine.New(), version)
	if err != nil {
		return nil, nil, err
	}
	o, list, err := phases.AdoptionBack(ctx, client, runs, run, how)
	if err != nil {
		return nil, nil, err
	}
	if o.Adoption.Leave && r.givesFiles() {
		return nil, nil, noFiles(run)
	}
	sayBack(s, "", run)
	if o.Adoption.Leave {
		return o, list, nil
	}
	lost, err := phases.LostFiles(ctx, client, runs, run, o.Flags.Provider)
	if err != nil {
		return nil, nil, err
	}
	return o, list, r.giveFiles(s, &o.Flags, run, lost)
}

// giveFiles lays the files that are given over the settings of before, which have none. What is known to be lost has to
// be given.
func (r *rollbacker) giveFiles(
	s phases.Streams, to *v1alpha1.CloudConfiguration, run *journal.Run, lost phases.Lost,
) error {
	var err error
	if r.files.Credentials, err = parseCredentials(r.keys); err != nil {
		return err
	}
	if r.givesFiles() {
		to.Override(&r.files)
		return nil
	}
	const how = "--cloud-config FILE, --credential KEY=FILE and --inventory FILE"
	switch lost {
	case phases.LostAll:
		return finding.Refusedf("go back to before run %d: the files of provider %s were removed since, and are in no record",
			run.ID, to.Provider).
			WithHint("give those that it had: ccmadm rollback %d with %s. Nothing was changed", run.ID, how)
	case phases.LostPerhaps:
		fmt.Fprintf(s.Err, "[rollback] warning: configuration files, credentials and the list of machines are in no record; "+
			"if provider %s had some, say no, and give them with %s\n", to.Provider, how)
	}
	return nil
}

func noFiles(run *journal.Run) error {
	return usage("go back to before run %d: ccmadm %s has removed no files that could be given again", run.ID, run.Command)
}

func (r *rollbacker) givesFiles() bool {
	return r.files.CloudConfig.File != "" || len(r.keys) > 0 || r.files.Inventory != ""
}
