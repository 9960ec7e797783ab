// What the shop sells, and the names and streets its customers have.
import type { Product } from '../shop/records.ts'

const LINES: readonly [name: string, cents: number, options: readonly string[]][] = [
  ['Trail Runner', 12_900, ['size 40', 'size 41', 'size 42', 'size 43']],
  ['City Sneaker', 8_900, ['size 39', 'size 40', 'size 41', 'size 42']],
  ['Rain Jacket', 14_500, ['small', 'medium', 'large']],
  ['Merino Jumper', 9_800, ['small', 'medium', 'large']],
  ['Canvas Backpack', 7_400, ['blue', 'green', 'black']],
  ['Enamel Teapot', 4_200, ['red', 'white']],
  ['Desk Lamp', 5_600, ['brass', 'black']],
  ['Wool Blanket', 6_900, ['grey', 'ochre']],
  ['Travel Mug', 2_400, ['blue', 'steel']],
  ['Chef Knife', 11_900, ['18 cm', '21 cm']],
]

/** Options that are never in stock, by product name: the desk has to find another way. */
export const SOLD_OUT: Readonly<Record<string, string>> = {
  'Trail Runner': 'size 43',
  'City Sneaker': 'size 39',
  'Rain Jacket': 'small',
  'Merino Jumper': 'large',
  'Canvas Backpack': 'black',
}

/** The catalogue. `stock` is what each option that is not sold out has: more than all tickets together can take. */
export function catalogue(stock: number): Product[] {
  return LINES.flatMap(([name, cents, options], product) =>
    options.map((option, index) => ({
      sku: `P${product + 1}-${index + 1}`,
      productId: `P${product + 1}`,
      name,
      option,
      cents,
      stock: SOLD_OUT[name] === option ? 0 : stock,
    })),
  )
}

export const FIRST_NAMES = [
  'Ada',
  'Bruno',
  'Chiara',
  'Dilan',
  'Elif',
  'Farid',
  'Greta',
  'Hugo',
  'Ines',
  'Jonas',
  'Kaya',
  'Lena',
  'Milan',
  'Nora',
] as const
export const LAST_NAMES = [
  'Abt',
  'Berger',
  'Costa',
  'Demir',
  'Ek',
  'Fuchs',
  'Grau',
  'Holm',
  'Ito',
  'Jansen',
  'Kern',
  'Lindt',
  'Moser',
  'Novak',
] as const
export const STREETS = ['Mill Lane', 'Station Road', 'Harbour Street', 'Orchard Way', 'Market Square', 'Chapel Hill'] as const
export const CITIES = [
  ['Bern', '3011', 'CH'],
  ['Lyon', '69002', 'FR'],
  ['Graz', '8010', 'AT'],
  ['Ghent', '9000', 'BE'],
  ['Porto', '4050', 'PT'],
] as const
