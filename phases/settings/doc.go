// Package settings is what a run goes by: the user's configuration laid over the cluster's record, with the provider's
// profile.
//
// Start at [Settings] and [Compatible]. Package record resolves them for a run. Reads: the machine's DMI, for provider
// "auto", and files that the user names. Writes nothing.
package settings
