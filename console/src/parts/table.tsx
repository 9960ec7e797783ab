// A table that scrolls within the page. A column whose title begins with `#` has numbers.
import type { ComponentChildren } from 'preact'

export function Table({ label, columns, children }: { label: string; columns: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((title) => (
              <th key={title} scope="col" class={title.startsWith('#') ? 'number' : ''}>
                {title.replace('#', '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}
