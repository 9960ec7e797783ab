// The Temporal release of the local stack, and its settings for agents.

/** The release of the `temporal` command line that is downloaded or built. Later ones cannot be built from the module proxy alone. */
export const CLI_RELEASE = '1.5.1'

/**
 * The release of the server's SQLite driver (modernc.org/sqlite) in a build. The one that belongs to `CLI_RELEASE` returns a connection that
 * was interrupted for good to the pool, see `restartIfWedged`; this one discards it.
 */
export const SQLITE_DRIVER_RELEASE = '1.51.0'

/** The file name of the program. */
export const PROGRAM = process.platform === 'win32' ? 'temporal.exe' : 'temporal'

/** Values for `--dynamic-config-value` of a dev server. docker/temporal-dynamic-config.yaml has the same values. */
export const DYNAMIC_CONFIG: Readonly<Record<string, string>> = {
  // The default of 20 polls per second limits a session to five turns per second.
  'history.transferProcessorMaxPollRPS': '2000',
  'system.enableActivityEagerExecution': 'true',
  // An execution is deleted once both queues have noted that its last tasks are done: every 30 s by default. Temporal
  // retries a deletion that came too early at growing intervals, up to a minute and a half later.
  'history.transferProcessorUpdateAckInterval': '"5s"',
  'history.visibilityProcessorUpdateAckInterval': '"5s"',
}

/** Retention of closed executions, for rebuilds of the side store. The dev server's default is one day. */
export const RETENTION_MS = 30 * 24 * 60 * 60 * 1_000
