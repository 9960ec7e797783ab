// Pictures of pages that are the same at each run: without times, ids and numbers of processes that differ. A file is written only if what
// it shows has changed.
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'

/** Replaces what differs between runs. Runs in the page. */
const SETTLE = `(() => {
  let minute = 0
  const all = [...document.querySelectorAll('time')]
  const byTime = all.toSorted((one, other) => Date.parse(other.dateTime) - Date.parse(one.dateTime))
  for (const time of all) {
    // A list may begin with its oldest.
    minute = time.classList.contains('clock') ? minute + 1 : 1 + byTime.indexOf(time)
    const isAhead = Date.parse(time.dateTime) > Date.now()
    const text = isAhead ? 'in ' + (2 + minute) + 'd' : time.classList.contains('clock') ? '10:' + String(10 + Math.floor(minute / 6)).padStart(2, '0') + ':' + (10 + (minute * 7) % 50) : 2 + Math.floor(minute / 3) + 'm ago'
    time.textContent = text
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const before = node.nodeValue
    const after = before
      .replaceAll(/\\b[0-9a-f]{12}\\b/g, 'a1b2c3d4e5f6')
      .replaceAll(/\\b[0-9a-f]{32,64}\\b/g, (hex) => 'a1b2c3d4'.repeat(hex.length / 8))
      .replaceAll(/\\b\\w[\\w.-]*:\\d{2,7} died/g, 'host:4242 died')
      .replaceAll(/\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z/g, '2026-11-29T10:10:10Z')
      .replaceAll(/\\b\\d{4}-\\d\\d-\\d\\d\\b(?=$)/g, '2026-11-29')
    if (after !== before) node.nodeValue = after
  }
})()`

/** Brings the page to a state that does not depend on when and where it is shown. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(SETTLE)
}

/** Both pictures are decoded by the browser. Resolves to the new one as WebP, or null if it shows the same. */
const COMPARE = `async ([png, before]) => {
  const drawn = async (url) => {
    const image = new Image()
    image.src = url
    await image.decode()
    const canvas = new OffscreenCanvas(image.width, image.height)
    canvas.getContext('2d').drawImage(image, 0, 0)
    return canvas
  }
  const made = await drawn(png)
  const blob = await made.convertToBlob({ type: 'image/webp', quality: 0.82 })
  const url = 'data:image/webp;base64,' + btoa(String.fromCharCode(...new Uint8Array(await blob.arrayBuffer())))
  if (before === null) return url
  const [one, other] = [await drawn(url), await drawn(before)]
  if (one.width !== other.width || one.height !== other.height) return url
  const [a, b] = [one, other].map((canvas) => canvas.getContext('2d').getImageData(0, 0, one.width, one.height).data)
  let different = 0
  for (let at = 0; at < a.length; at += 4) if (Math.abs(a[at] - b[at]) + Math.abs(a[at + 1] - b[at + 1]) + Math.abs(a[at + 2] - b[at + 2]) > 60) different += 1
  return different / (a.length / 4) > 0.0005 ? url : null
}`

/** Writes the picture of the window, unless the file has the same. */
export async function keepPicture(page: Page, path: string): Promise<void> {
  const png = await page.screenshot({ animations: 'disabled', caret: 'hide' })
  const before = existsSync(path) ? `data:image/webp;base64,${(await readFile(path)).toString('base64')}` : null
  const draw = await page.context().newPage()
  const url = await draw.evaluate<string | null>(
    `(${COMPARE})(${JSON.stringify([`data:image/png;base64,${png.toString('base64')}`, before])})`,
  )
  await draw.close()
  if (url !== null) await writeFile(path, Buffer.from(url.slice(url.indexOf(',') + 1), 'base64'))
}
