// Where the visitor is: the part of the address behind `#`, as a path and its parameters, so that every view can be linked to.
import { useEffect, useState } from 'preact/hooks'

export interface Place {
  path: string[]
  query: URLSearchParams
}

function placeNow(): Place {
  const [path = '', query = ''] = location.hash.slice(1).split('?')
  return { path: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query) }
}

/** A part of the address; as it is, if it was cut off or typed. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of a place. */
export function linkTo(path: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '')
  const search = new URLSearchParams(given).toString()
  return `#/${path.map(encodeURIComponent).join('/')}${search && `?${search}`}`
}

export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow)
  useEffect(() => {
    const change = (): void => setPlace(placeNow())
    addEventListener('hashchange', change)
    return () => removeEventListener('hashchange', change)
  }, [])
  return place
}

/** Replaces the parameters of this place, without a new entry in the history of the browser. */
export function replaceQuery(path: string[], query: Record<string, string | undefined>): void {
  history.replaceState(null, '', linkTo(path, query))
  dispatchEvent(new HashChangeEvent('hashchange'))
}
