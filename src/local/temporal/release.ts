// Which Temporal server the local stack runs, and what makes it fit for agents.

/** The release of the `temporal` command line that is downloaded or built. */
export const CLI_RELEASE = '1.5.1'

/** `--dynamic-config-value` of a dev server. The same stands in docker/temporal-dynamic-config.yaml. */
export const DYNAMIC_CONFIG: Readonly<Record<string, string>> = {
  // The default of 20 polls a second caps a session at five turns a second.
  'history.transferProcessorMaxPollRPS': '2000',
  'system.enableActivityEagerExecution': 'true',
}

/** How long closed executions are kept: what a rebuild of the side store can still read. The dev server's default is one day. */
export const RETENTION_MS = 30 * 24 * 60 * 60 * 1_000
