/** The number of an event, as a link that moves the slider there. */
export function SeqLink({ seq }: { seq: number }) {
  return (
    <a class="seq" href={`${location.hash.split('?')[0]}?at=${seq}`} title="Show the session as it was then">
      #{seq}
    </a>
  )
}
