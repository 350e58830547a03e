// Opens the built site in headless Chromium as a reader does: searches for texts of errors, and looks for errors of the console,
// requests to other hosts, and pages wider than the screen. With --pictures FOLDER it keeps screenshots.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { address, groups, isOldAddress } from './index.mjs'

const dist = fileURLToPath(new URL('dist/', import.meta.url))
const types = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png', '.woff2': 'font/woff2',
}
// What readers type, and the pages of which one has to be among the first three.
const symptoms = {
  'super-admin.conf': ['tasks/init-and-join'],
  'node.cloudprovider.kubernetes.io/uninitialized': ['troubleshooting', 'concepts/external-cloud-mode'],
  'timed out waiting for the condition': ['tasks/init-and-join'],
  'kubelet serving certificate pending': ['tasks/serving-certificates-pending'],
  'no address for the control plane': ['tasks/high-availability'],
}
const screens = ['index', 'tasks/adopt-existing-cluster', 'reference/ports-and-firewall', 'concepts/architecture', 'concepts/comparison']
const failures = []

// serve answers with the files of the built site, on a free port of loopback.
function serve() {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
    let file = path.join(dist, name.endsWith('/') ? name + 'index.html' : name)
    if (!path.extname(name) && !name.endsWith('/')) file += '.html'
    if (!file.startsWith(dist) || !fs.existsSync(file)) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'text/plain; charset=utf-8' })
    fs.createReadStream(file).pipe(response)
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

function watch(page, origin) {
  page.on('console', (m) => { if (m.type() === 'error') failures.push(`${page.url()}: console: ${m.text()}`) })
  page.on('pageerror', (e) => failures.push(`${page.url()}: ${e.message}`))
  page.on('request', (r) => {
    if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(origin)) failures.push(`${page.url()}: request to another host: ${r.url()}`)
  })
  page.on('response', (r) => { if (r.status() >= 400) failures.push(`${page.url()}: ${r.url()}: status ${r.status()}`) })
}

// firstPages returns the pages of the search's results in order, each once.
async function firstPages(page, origin, text) {
  await page.goto(origin + '/')
  await page.keyboard.press('Control+k')
  await page.locator('#localsearch-input').fill(text)
  await page.locator('#localsearch-list a').first().waitFor()
  await page.waitForTimeout(1000) // results are replaced while the input settles
  const links = await page.locator('#localsearch-list a').evaluateAll((list) => list.map((a) => a.getAttribute('href')))
  return [...new Set(links.map((l) => l.replace(/#.*/, '').replace(/^\/|\.html$/g, '')))]
}

async function searches(page, origin) {
  for (const [text, wanted] of Object.entries(symptoms)) {
    const found = await firstPages(page, origin, text)
    const rank = found.findIndex((f) => wanted.includes(f)) + 1
    const search = `search ${JSON.stringify(text)}: ${wanted.join(' or ')}`
    console.log(`${search} is ${rank ? 'page ' + rank : 'not found'}; first: ${found.slice(0, 3).join(', ')}`)
    if (!rank || rank > 3) failures.push(`${search} is not among the first three: add the text to the page`)
    const old = found.filter((f) => isOldAddress(f.replace(/^$/, 'README').replace(/index$/, 'README') + '.md'))
    if (old.length) failures.push(`${search}: old addresses are found: ${old.join(', ')}`)
  }
}

async function look(browser, origin, width, colorScheme, folder) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme })
  const page = await context.newPage()
  watch(page, origin)
  for (const name of screens) {
    await page.goto(`${origin}/${name}.html`, { waitUntil: 'load' })
    await page.locator('.vp-doc h1').waitFor()
    if (name === 'concepts/architecture') await page.locator('pre.diagram svg').first().waitFor()
    const wide = await page.evaluate(() => document.documentElement.scrollWidth)
    if (wide > width) failures.push(`${name}: ${wide} pixels wide on a screen of ${width}`)
    const dark = await page.evaluate(() => document.documentElement.classList.contains('dark'))
    if (dark !== (colorScheme === 'dark')) failures.push(`${name}: colours are not ${colorScheme}`)
    if (folder) await page.screenshot({ path: path.join(folder, `${name.replaceAll('/', '-')}-${width}-${colorScheme}.png`) })
  }
  await context.close()
}

const folder = process.argv[process.argv.indexOf('--pictures') + 1]
const keep = process.argv.includes('--pictures') ? folder : undefined
if (keep) fs.mkdirSync(keep, { recursive: true })
const server = await serve()
const origin = `http://127.0.0.1:${server.address().port}`
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] })
try {
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  watch(page, origin)
  await searches(page, origin)
  for (const width of [390, 1280]) for (const scheme of ['light', 'dark']) await look(browser, origin, width, scheme, keep)
  for (const name of groups().flatMap((g) => g.pages).map(address)) {
    if (!fs.existsSync(dist + name.replace(/md$/, 'html'))) failures.push(`${name} was not built`)
  }
  const list = fs.readFileSync(dist + 'llms.txt', 'utf8')
  for (const [, target] of list.matchAll(/\]\(([^)]+)\)/g)) {
    if (!fs.existsSync(dist + target)) failures.push(`llms.txt: there is no ${target}`)
  }
} finally {
  await browser.close()
  server.close()
}
for (const failure of new Set(failures)) console.error(failure)
if (failures.length) process.exit(1)
console.log('no errors of the console, no requests to other hosts, no page wider than its screen')
