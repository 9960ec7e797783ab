// The example of docs/recipes.md, compiled and run by our tests: issues at GitHub, which takes no keys, and at Linear, where the id is yours.
// #region guide
import { defineTool, ToolError } from 'pawl'
import { z } from 'zod'
import { request } from './http.ts'

const GITHUB = process.env.GITHUB_URL ?? 'https://api.github.com'
const repository = process.env.GITHUB_REPOSITORY ?? 'acme/shop'
const github = { authorization: `Bearer ${process.env.GITHUB_TOKEN}`, accept: 'application/vnd.github+json' }

interface Issue {
  number: number
  html_url: string
  body: string | null
}

/** Invisible on the page of the issue. */
const markOf = (key: string): string => `<!-- pawl:${key} -->`

export const openIssue = defineTool({
  name: 'open_issue',
  description: 'Open an issue for the developers.',
  input: z.object({ title: z.string(), body: z.string() }),
  effect: 'external',
  execute: ({ title, body }, ctx) =>
    request<Issue>(`${GITHUB}/repos/${repository}/issues`, {
      method: 'POST',
      headers: github,
      body: JSON.stringify({ title, body: `${body}\n\n${markOf(ctx.idempotencyKey)}` }),
      signal: ctx.signal,
    }),
  verify: async (_input, ctx) => {
    // The list, newest first: the search has new issues only after a while.
    for (let page = 1; page <= 10; page++) {
      const query = new URLSearchParams({ state: 'all', sort: 'created', direction: 'desc', per_page: '100', page: String(page) })
      const issues = await request<Issue[]>(`${GITHUB}/repos/${repository}/issues?${query}`, { headers: github, signal: ctx.signal })
      const found = issues.find(({ body }) => body?.includes(markOf(ctx.idempotencyKey)))
      if (found) return { happened: true, result: found }
      if (issues.length < 100) return { happened: false }
    }
    return { happened: 'unknown' }
  },
  effectId: ({ number }) => `${repository}#${number}`,
  toModel: ({ number, html_url }) => `Issue ${number}: ${html_url}`,
})

const LINEAR = process.env.LINEAR_URL ?? 'https://api.linear.app'

interface Answer<D> {
  data?: D | null
  errors?: { message: string }[]
}

/** A UUID (version 4 by its form) that is the same on every attempt. */
function uuidOf(key: string): string {
  const variant = '89ab'[Number.parseInt(key.charAt(16), 16) % 4]
  return [key.slice(0, 8), key.slice(8, 12), `4${key.slice(13, 16)}`, `${variant}${key.slice(17, 20)}`, key.slice(20, 32)].join('-')
}

function linear<D>(query: string, variables: object, signal: AbortSignal): Promise<Answer<D>> {
  return request<Answer<D>>(`${LINEAR}/graphql`, {
    method: 'POST',
    headers: { authorization: process.env.LINEAR_KEY ?? '', 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
    signal,
  })
}

export const openTicket = defineTool({
  name: 'open_ticket',
  description: 'Open a ticket for the support team.',
  input: z.object({ title: z.string(), description: z.string() }),
  effect: 'idempotent',
  execute: async ({ title, description }, { idempotencyKey, signal }) => {
    const id = uuidOf(idempotencyKey)
    const input = { id, teamId: process.env.LINEAR_TEAM ?? '', title, description }
    const create = 'mutation ($input: IssueCreateInput!) { issueCreate(input: $input) { issue { id identifier url } } }'
    type Ticket = { id: string; identifier: string; url: string }
    const created = await linear<{ issueCreate: { issue: Ticket } }>(create, { input }, signal)
    if (created.data) return created.data.issueCreate.issue
    // An earlier attempt may have created it: the id is taken then.
    const { data } = await linear<{ issue: Ticket }>('query ($id: String!) { issue(id: $id) { id identifier url } }', { id }, signal)
    if (data) return data.issue
    throw new ToolError(`Linear: ${created.errors?.map(({ message }) => message).join(', ')}`, { code: 'refused' })
  },
  toModel: ({ identifier, url }) => `Ticket ${identifier}: ${url}`,
})
// #endregion
