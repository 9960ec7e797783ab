// The 16 retail tools as pure functions: a database and arguments in, a text and the next database out.
import type { Json, JsonObject } from '../../src/session/json.ts'
import { Refusal, orderOf, ownOf, refuse, userOf } from './checks.ts'
import type { Database, User } from './database.ts'
import { EvaluationError, evaluate, printFloat, round2 } from './numbers.ts'
import {
  type Writing,
  cancelPending,
  exchangeDelivered,
  modifyItems,
  modifyOrderAddress,
  modifyPayment,
  modifyUserAddress,
  returnDelivered,
} from './writes.ts'

/** What a tool returns: the text for the caller, and the database after it (the same object if nothing was written). */
export interface Outcome {
  text: string
  database: Database
}

/** A tool over a database. Arguments are trusted: the caller has checked them against the tool's schema. */
export type WorldTool = (database: Database, args: JsonObject) => Outcome

type Reading<A> = (database: Database, args: A) => string

const attempt = (database: Database, body: () => Outcome): Outcome => {
  try {
    return body()
  } catch (error) {
    if (error instanceof Refusal) return { text: `Error: ${error.message}`, database }
    throw error
  }
}

const reads =
  <A>(read: Reading<A>): WorldTool =>
  (database, args) =>
    attempt(database, () => ({ text: read(database, args as A), database }))

const writes =
  <A>(write: Writing<A>): WorldTool =>
  (database, args) =>
    attempt(database, () => {
      const { database: next, show } = write(database, args as A)
      return { text: JSON.stringify(show), database: next }
    })

const findUser = (database: Database, matches: (user: User) => boolean): string =>
  Object.keys(database.users).find((id) => matches(database.users[id] as User)) ?? refuse('user not found')

const sameText = (a: string, b: string) => a.toLowerCase() === b.toLowerCase()

function calculate(expression: string): string {
  if (!/^[0-9+\-*/(). ]*$/.test(expression)) return refuse('invalid characters in expression')
  try {
    return printFloat(round2(evaluate(expression)))
  } catch (error) {
    if (error instanceof EvaluationError) return refuse(error.message)
    throw error
  }
}

/** The tools by name. */
export const WORLD_TOOLS: ReadonlyMap<string, WorldTool> = new Map<string, WorldTool>([
  ['calculate', reads<{ expression: string }>((_database, { expression }) => calculate(expression))],
  ['cancel_pending_order', writes(cancelPending)],
  ['exchange_delivered_order_items', writes(exchangeDelivered)],
  ['find_user_id_by_email', reads<{ email: string }>((database, { email }) => findUser(database, (user) => sameText(user.email, email)))],
  [
    'find_user_id_by_name_zip',
    reads<{ first_name: string; last_name: string; zip: string }>((database, { first_name, last_name, zip }) =>
      findUser(
        database,
        ({ name, address }) => sameText(name.first_name, first_name) && sameText(name.last_name, last_name) && address.zip === zip,
      ),
    ),
  ],
  ['get_order_details', reads<{ order_id: string }>((database, { order_id }) => JSON.stringify(orderOf(database, order_id)))],
  [
    'get_product_details',
    reads<{ product_id: string }>((database, { product_id }) =>
      JSON.stringify(ownOf(database.products, product_id) ?? refuse('product not found')),
    ),
  ],
  ['get_user_details', reads<{ user_id: string }>((database, { user_id }) => JSON.stringify(userOf(database, user_id)))],
  ['list_all_product_types', reads((database) => JSON.stringify(productTypes(database)))],
  ['modify_pending_order_address', writes(modifyOrderAddress)],
  ['modify_pending_order_items', writes(modifyItems)],
  ['modify_pending_order_payment', writes(modifyPayment)],
  ['modify_user_address', writes(modifyUserAddress)],
  ['return_delivered_order_items', writes(returnDelivered)],
  ['think', reads(() => '')],
  ['transfer_to_human_agents', reads(() => 'Transfer successful')],
])

function productTypes(database: Database): Json {
  const pairs = Object.values(database.products).map(({ name, product_id }) => [name, product_id] as const)
  return Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Runs one tool. @throws Error for any other name. */
export function runTool(database: Database, name: string, args: JsonObject): Outcome {
  const tool = WORLD_TOOLS.get(name)
  if (!tool) throw new Error(`There is no tool "${name}"; the tools are ${[...WORLD_TOOLS.keys()].join(', ')}.`)
  return tool(database, args)
}
