// The groups of `pawl --help`, in the order in which people look for commands, and examples of each command.

export interface Group {
  heading: string
  /** The commands with examples of their use. */
  commands: Readonly<Record<string, readonly string[]>>
}

export const GROUPS: readonly Group[] = [
  {
    heading: 'Run agents:',
    commands: {
      dev: ['pawl dev agents.ts', 'pawl dev agents.ts --processes 1 --no-watch'],
      worker: ['pawl worker agents.ts --processes 2', 'pawl worker agents.ts --migrate check --task-queue support'],
      serve: ['pawl serve --port 8787', 'pawl serve --host 0.0.0.0 --agents support,billing'],
      keys: ['pawl keys create web-frontend --scopes read,send --tenant acme', 'pawl keys list', 'pawl keys revoke a8877ba47348'],
      webhooks: [
        'pawl webhooks create https://example.com/pawl --type call.waiting,session.error',
        'pawl webhooks list',
        'pawl webhooks deliveries --given-up',
      ],
    },
  },
  {
    heading: 'Talk to agents:',
    commands: {
      chat: ['pawl chat support', 'pawl chat support --context \'{"tenantId":"acme"}\' --tag vip', 'pawl chat --resume customer-42'],
      send: [
        "pawl send customer-42 'Where is my order?' --agent support",
        'pawl send customer-42 \'Hello\' --agent support --context \'{"tenantId":"acme"}\' --tag vip,eu',
        "pawl send customer-42 'Stop, it is order A18' --interrupt",
        "pawl send customer-42 'Has the parcel arrived?' --delay 3d",
      ],
      scheduled: ['pawl scheduled customer-42'],
      unschedule: ['pawl unschedule customer-42 reminder-1'],
      schedules: [
        "pawl schedules create report 'Write the weekly report.' --agent support --cron '0 9 * * MON' --time-zone Europe/Berlin",
        'pawl schedules list',
        "pawl schedules pause report --reason 'on holiday'",
      ],
      interrupt: ["pawl interrupt customer-42 --reason 'wrong customer'"],
      close: ['pawl close customer-42'],
    },
  },
  {
    heading: 'Decide what waits for a person:',
    commands: {
      pending: ['pawl pending', 'pawl pending --kind approval --agent support'],
      approve: ['pawl approve customer-42 t_1_1_0', 'pawl approve customer-42 t_1_1_0 --input \'{"cents":400}\''],
      approvals: ['pawl approvals rules --agent support', 'pawl approvals revoke ar_5f2c8e1b9d3a4c70'],
      deny: ["pawl deny customer-42 t_1_1_0 --reason 'too much'"],
      answer: [
        'pawl answer customer-42 t_1_1_0 \'"blue"\'',
        'pawl answer customer-42 t_1_1_0 \'{"action":"accept","content":{"size":"M"}}\'',
      ],
      resolve: ['pawl resolve customer-42 t_1_1_0 --not-happened', 'pawl resolve customer-42 t_1_1_0 --happened \'{"id":"re_1"}\''],
    },
  },
  {
    heading: 'See what happens:',
    commands: {
      status: ['pawl status', 'pawl status --watch', 'pawl status customer-42'],
      agents: ['pawl agents', 'pawl agents --task-queue support --json'],
      sessions: ['pawl sessions --status error,waiting', 'pawl sessions --agent support --tag vip --since 2d'],
      show: ['pawl show customer-42'],
      messages: ['pawl messages customer-42', 'pawl messages customer-42 --checkpoint 3'],
      run: ['pawl run customer-42', 'pawl run customer-42 3'],
      events: ['pawl events customer-42 --follow', 'pawl events customer-42 --follow --tree', 'pawl events --follow --json'],
      plan: ['pawl plan customer-42'],
      memory: ['pawl memory customer-42'],
      usage: ['pawl usage --by model --since 7d', 'pawl usage customer-42'],
    },
  },
  {
    heading: 'Find out what is wrong:',
    commands: {
      doctor: ['pawl doctor'],
      errors: ['pawl errors --since 2h', 'pawl errors customer-42 --context tool:refund_order'],
      failures: ['pawl failures --since 7d'],
      tools: ['pawl tools --status unknown', 'pawl tools --effect-id re_1'],
      gates: ['pawl gates', "pawl gates open 'anthropic 1f2e3d4c'"],
    },
  },
  {
    heading: 'Continue, pause and go back:',
    commands: {
      recover: ['pawl recover customer-42 --strategy continue_run'],
      resume: ['pawl resume customer-42'],
      regenerate: ['pawl regenerate customer-42'],
      budgets: ['pawl budgets', 'pawl budgets set --tag tenant:acme --max-usd 50 --per day', "pawl budgets remove 'day tag tenant:acme'"],
      raise: ['pawl raise customer-42 --max-usd 5'],
      pause: ["pawl pause customer-42 --reason 'under review'"],
      unpause: ['pawl unpause customer-42'],
      checkpoints: ['pawl checkpoints customer-42'],
      checkpoint: ["pawl checkpoint customer-42 --reason 'before the migration'"],
      rollback: ['pawl rollback customer-42 --checkpoint 3'],
      fork: ['pawl fork customer-42 --run 2'],
    },
  },
  {
    heading: 'Deploy and maintain:',
    commands: {
      preflight: ['pawl preflight agents.ts'],
      mcp: ['pawl mcp agents.ts', 'pawl mcp agents.ts --json'],
      'crash-test': ['pawl crash-test crash.ts'],
      migrate: ['pawl migrate --check', 'pawl migrate --app-role app'],
      rebuild: ['pawl rebuild customer-42'],
      prune: ['pawl prune --older-than 90d --dry-run'],
      erase: ['pawl erase customer-42 --by ann'],
    },
  },
]
