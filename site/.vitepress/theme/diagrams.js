let program

// load adds mermaid to the page once, from this site.
const load = (src) => program ??= new Promise((resolve, reject) => {
  const script = document.createElement('script')
  script.src = src
  script.onload = () => resolve(window.mermaid)
  script.onerror = () => reject(new Error(`load ${src}: reload the page, or read the diagram as text`))
  document.head.append(script)
})

// draw shows the diagrams of the page as pictures, in the colours of the theme.
export async function draw(src, dark) {
  const list = [...document.querySelectorAll('pre.diagram')]
  if (!list.length) return
  const mermaid = await load(src)
  mermaid.initialize({ startOnLoad: false, theme: dark ? 'dark' : 'default' })
  for (const [i, block] of list.entries()) {
    block.dataset.source ??= block.textContent
    const { svg } = await mermaid.render(`diagram-${i}`, block.dataset.source)
    block.innerHTML = svg
  }
}
