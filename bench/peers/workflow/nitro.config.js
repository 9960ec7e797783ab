// The server of the Workflow SDK's program.
import { defineConfig } from 'nitro'

export default defineConfig({ serverDir: './server', modules: ['workflow/nitro'] })
