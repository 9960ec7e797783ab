import { useEffect } from 'preact/hooks'
import { useActing } from './acting.ts'
import { answered, api, Refused, SIGNED_OUT, signIn, signOut } from './api/client.ts'
import { useLoaded } from './loading.ts'
import { Errors } from './pages/errors.tsx'
import { Inbox } from './pages/inbox.tsx'
import { Search } from './pages/search.tsx'
import { Session } from './pages/session.tsx'
import { Sessions } from './pages/sessions.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { Usage } from './pages/usage.tsx'
import { Empty, Problem } from './parts/common.tsx'
import { Failing } from './parts/failing.tsx'
import { lazy } from './parts/lazy.tsx'
import { linkTo, type Place, usePlace } from './route.ts'

const Workers = lazy(async () => (await import('./pages/workers.tsx')).Workers)
const Schedules = lazy(async () => (await import('./pages/schedules.tsx')).Schedules)
const Rules = lazy(async () => (await import('./pages/rules.tsx')).Rules)

const PAGES = [
  ['sessions', 'Sessions'],
  ['inbox', 'Inbox'],
  ['usage', 'Usage'],
  ['errors', 'Errors'],
  ['workers', 'Workers'],
  ['schedules', 'Schedules'],
  ['rules', 'Rules'],
] as const

export function App() {
  const place = usePlace()
  const { data, problem, again } = useLoaded('caller', async (signal) => {
    try {
      return await answered(api.GET('/v1/caller', { signal }))
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return null
      throw error
    }
  })
  useEffect(() => {
    // Until the server answers.
    if (data !== undefined || problem === undefined) return undefined
    const timer = setInterval(again, 2_000)
    return () => clearInterval(timer)
  }, [data, problem])
  const { act, isSending, problem: notSignedOut } = useActing()
  const isSignedIn = data !== undefined && data !== null
  useEffect(() => {
    // Such as when the key has been revoked.
    if (!isSignedIn) return undefined
    addEventListener(SIGNED_OUT, again)
    return () => removeEventListener(SIGNED_OUT, again)
  }, [isSignedIn])
  const [page = 'sessions', id] = place.path
  useEffect(() => {
    document.title = `${id ?? PAGES.find(([name]) => name === page)?.[1] ?? 'pawl'} · pawl`
  }, [page, id])
  const given = page === 'sign-in' ? place.query.get('key') : null
  useEffect(() => {
    // The key does not stay in the address.
    if (given !== null) void signIn(given).catch(() => undefined).then(() => (location.replace('#/sessions'), again()))
  }, [given])
  if (given !== null) return null
  if (data === undefined)
    return (
      <main aria-busy={problem === undefined}>
        <h1 class="hidden">pawl</h1>
        <Problem text={problem} again={again} />
      </main>
    )
  if (data === null) return <SignIn onDone={again} />
  return (
    <>
      <nav aria-label="Console">
        <a class="brand" href={linkTo(['sessions'])}>
          <Mark /> pawl
        </a>
        {PAGES.map(([name, title]) => (
          <a key={name} href={linkTo([name])} aria-current={name === page ? 'page' : undefined}>
            {title}
          </a>
        ))}
        <span class="spring" />
        <SearchBox />
        <span class="who" title={`may ${data.scopes.join(', ')}`}>
          {data.identity}
        </span>
        <button type="button" class="plain" disabled={isSending} onClick={() => act(signOut, again)}>
          Sign out
        </button>
      </nav>
      <Problem text={notSignedOut} />
      <Failing key={place.path.join('/')}>
        <Page place={place} scopes={data.scopes} />
      </Failing>
    </>
  )
}

/** The catch of a ratchet. */
function Mark() {
  return (
    <svg class="mark" viewBox="0 0 16 16" aria-hidden="true">
      <path d="M3 13V3h6a3.5 3.5 0 0 1 0 7H6" />
    </svg>
  )
}

function SearchBox() {
  const search = (event: SubmitEvent): void => {
    event.preventDefault()
    const text = new FormData(event.currentTarget as HTMLFormElement).get('q')
    if (typeof text === 'string' && text.trim() !== '') location.hash = linkTo(['search'], { q: text.trim() })
  }
  return (
    <form role="search" onSubmit={search}>
      <input type="search" name="q" aria-label="Search" placeholder="session, tag, key or effect" />
    </form>
  )
}

function Page({ place, scopes }: { place: Place; scopes: readonly string[] }) {
  const [page = 'sessions', id] = place.path
  if (page === 'sessions' && id !== undefined) return <Session key={id} id={id} scopes={scopes} place={place} />
  if (page === 'sessions') return <Sessions place={place} />
  if (page === 'inbox') return <Inbox scopes={scopes} place={place} />
  if (page === 'usage') return <Usage place={place} />
  if (page === 'errors') return <Errors scopes={scopes} />
  if (page === 'workers') return <Workers />
  if (page === 'schedules') return <Schedules scopes={scopes} />
  if (page === 'rules') return <Rules scopes={scopes} place={place} />
  if (page === 'search') return <Search place={place} />
  return (
    <main>
      <Empty isPage title="There is no such page">
        <a href={linkTo(['sessions'])}>Sessions</a>
      </Empty>
    </main>
  )
}
