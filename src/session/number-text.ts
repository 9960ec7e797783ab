// Formats numbers in messages.

/** A number for people, with separators between thousands: `1,000,000`. */
export function numberText(value: number): string {
  const [whole = '', ...fraction] = String(value).split('.')
  return [whole.replace(/\B(?=(\d{3})+$)/g, ','), ...fraction].join('.')
}
