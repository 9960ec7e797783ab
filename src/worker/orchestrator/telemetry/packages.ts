// OpenTelemetry's SDK and exporters: loaded only when telemetry is on, because most workers have it off, and the packages are optional.
import { WorkerError } from '../../errors.ts'

/** Loads a package. @throws WorkerError `no_telemetry_packages`. */
export async function loaded<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const code = (cause as { code?: unknown }).code
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause
    throw new WorkerError(
      'no_telemetry_packages',
      `Telemetry is on, but ${name} is not installed: run \`npm install ${name}\`, or turn telemetry off (OTEL_SDK_DISABLED=true).`,
      { cause },
    )
  }
}
