// The files that a browser keeps on disk for our origin, as another page of that origin sees them.

/** Every file of the origin's private file system, with path and size. Files removed during the listing are left out. */
export function filesOnDisk(person) {
  return person.tab.evaluate(async () => {
    const files = []
    const unlessRemoved = async (see) => {
      try {
        await see()
      } catch (error) {
        if (error.name !== 'NotFoundError') throw error
      }
    }
    const look = async (folder, path) => {
      for await (const [name, handle] of folder.entries()) {
        await unlessRemoved(async () => {
          if (handle.kind === 'directory') await look(handle, `${path}${name}/`)
          else files.push({ path: path + name, bytes: (await handle.getFile()).size })
        })
      }
    }
    await look(await navigator.storage.getDirectory(), '')
    return files
  })
}

export async function bytesOnDisk(person) {
  return (await filesOnDisk(person)).reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Makes the closing times of tabs one minute older. */
export function ageClosedTabs(person) {
  return person.tab.evaluate(() => {
    const left = Object.keys(localStorage).filter((key) => key.startsWith('watchfire:left:'))
    for (const key of left) localStorage.setItem(key, String(Number(localStorage.getItem(key)) - 60_000))
    return left.length
  })
}
