// Functions for `evaluate` on a player: each runs in the page.

/** Starts playback, and resolves when the current time advances. */
export async function startPlaying(player) {
  player.muted = true
  await player.play()
  if (player.currentTime > 0) return
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`it does not play: ${player.readyState}, ${player.error?.message}`)), 60_000)
    player.addEventListener('timeupdate', () => {
      clearTimeout(late)
      if (player.currentTime > 0) resolve(null)
    })
  })
}

/** Seeks, and returns the milliseconds until playback continued. */
export async function seek(player, second) {
  const began = performance.now()
  player.currentTime = second
  await new Promise((resolve, reject) => {
    const look = () => {
      if (player.currentTime > second && !player.seeking) resolve(null)
      else if (performance.now() - began > 60_000) reject(new Error(`playback stopped at ${player.currentTime}, ${player.readyState}`))
      else setTimeout(look, 5)
    }
    look()
  })
  return performance.now() - began
}
