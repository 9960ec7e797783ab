// Starts the world, whose queue then delivers the runs that were active when the last process ended.
export default async function start() {
  const { getWorld } = await import('workflow/runtime')
  await getWorld().start?.()
}
