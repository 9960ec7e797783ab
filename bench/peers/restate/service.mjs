// The Restate server, which outlives the worker that is killed.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setting } from '../program.mjs'

const [ingress, admin, node] = setting.ports
const require = createRequire(import.meta.url)
const server = spawn(
  process.execPath,
  [require.resolve('@restatedev/restate-server/lib/index.js'), '--base-dir', join(setting.folder, 'data')],
  {
    env: {
      ...process.env,
      RESTATE_NODE_NAME: 'bench',
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_LOG_FILTER: 'error',
      RUST_LOG: 'error',
      RESTATE_DISABLE_TELEMETRY: 'true',
      DO_NOT_TRACK: '1',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  },
)
process.stdin.resume().once('end', () => server.kill('SIGTERM'))
server.once('exit', (code) => process.exit(code ?? 0))
